// A scale maps values to positions: at(value) returns a number from 0 to 1, or NaN if the value has no
// position. ticks(count) returns the labelled positions [{at, label}].

// `whole`: ticks at whole numbers only.
function linearScale(low, high, whole = false) {
  if (!(high > low)) [low, high] = [low - (Math.abs(low) || 1) / 2, low + (Math.abs(low) || 1) / 2];
  const at = (value) => Math.min(1, Math.max(0, (value - low) / (high - low)));
  const ticks = (count) => {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const nice = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.75);
    const step = whole ? Math.max(1, nice) : nice;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && found.length < 50; i++) {
      found.push({at: at(i * step), label: formatNumber(i * step)});
    }
    return found;
  };
  return {at: (value) => typeof value === "number" ? at(value) : NaN, ticks};
}

function logScale(low, high) {
  if (!(high > low)) [low, high] = [low / 2, low * 2];
  const inner = linearScale(Math.log10(low), Math.log10(high));
  const at = (value) => typeof value === "number" && value > 0 ? inner.at(Math.log10(value)) : NaN;
  const ticks = (count) => {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const factors = to - from <= 2 ? [1, 2, 5] : [1];
    const found = [];
    for (let power = from; power <= to; power++) {
      for (const factor of factors) {
        const value = Number(`${factor}e${power}`);
        if (value >= low * 0.999 && value <= high * 1.001) found.push({at: at(value), label: formatNumber(value)});
      }
    }
    return found.length > 1 ? thinned(found, count) : [low, high].map((value) => ({at: at(value), label: formatNumber(value)}));
  };
  return {at, ticks, log: true};
}

function categoryScale(values) {
  const places = new Map(values.map((value, i) => [value, (i + 0.5) / values.length]));
  const ticks = (count) => thinned(values.map((value) => ({at: places.get(value), label: formatValue(value)})), count);
  return {at: (value) => places.get(value) ?? NaN, ticks, category: true};
}

function thinned(list, count) {
  const every = Math.ceil(list.length / Math.max(2, count));
  return list.filter((_, i) => i % every === 0);
}

// The range of the values without outliers, such as those of diverged trainings. An outlier is more than
// three interquartile ranges away from the quartiles. The charts draw a value outside of the scale at the
// edge.
function usualRange(values) {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return {low: 0, high: 1, outside: 0};
  const quartile = (part) => sorted[Math.floor((sorted.length - 1) * part)];
  const reach = 3 * (quartile(0.75) - quartile(0.25));
  const inside = reach > 0 ? sorted.filter((value) => value >= quartile(0.25) - reach && value <= quartile(0.75) + reach) : sorted;
  return {low: inside[0], high: inside[inside.length - 1], outside: sorted.length - inside.length};
}

// Returns a logarithmic scale if the usual values span two powers of ten or more.
function scaleOfNumbers(values) {
  const {low, high} = usualRange(values);
  return low > 0 && high / low >= 100 ? logScale(low, high) : linearScale(low, high);
}
