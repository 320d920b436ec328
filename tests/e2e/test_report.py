"""The report of a sweep in a headless Chromium. Its data is invented, and partly hostile: tests/support/report_sample.cpp."""

import base64
import json

import browser
import mlk
import pytest

pytestmark = pytest.mark.skipif(not browser.program(), reason=f"none of {', '.join(browser.PROGRAMS)} is installed")


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as running:
        yield running


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """sample(trials) writes the report of this number of trials, and returns its URL."""
    folder = tmp_path_factory.mktemp("report")

    def write(trials=120):
        path = folder / f"{trials}.html"
        path.write_text(mlk.run(mlk.BUILD / "report_sample", trials, check=0, timeout=120).stdout, encoding="utf-8")
        return path.as_uri()
    return write


@pytest.fixture
def page(chromium, sample):
    return chromium.open(sample())


def column(page, name):
    """The texts in the column with this name in the table of trials."""
    return page.evaluate(f"""(() => {{
        const at = [...document.querySelectorAll("#trials th")].findIndex((head) => head.title === {json.dumps(name)});
        return [...document.querySelectorAll("#trials tbody tr")].map((row) => row.cells[at].textContent);
    }})()""")


def head(name):
    return f'#trials th[title="{name}"] button'


def count(page):
    return int(page.evaluate("document.getElementById('count').textContent").split()[0])


def problems(page):
    """Exceptions, errors on the console, and complaints of the browser."""
    return (page.events("Runtime.exceptionThrown") + [entry for entry in page.events("Runtime.consoleAPICalled") if entry["type"] in ("error", "warning")]
            + [entry for entry in page.events("Log.entryAdded") if entry["entry"]["level"] in ("error", "warning")])


@pytest.mark.parametrize("trials", [0, 1, 8, 120])
def test_a_report_opens_without_an_error_and_makes_no_further_request(chromium, sample, trials):
    url = sample(trials)
    page = chromium.open(url)
    assert problems(page) == []
    assert [event["request"]["url"] for event in page.events("Network.requestWillBeSent")] == [url]
    assert page.evaluate("document.title") == "digits-search"  # one of the failure messages tries to change the title


def test_the_report_blocks_injected_scripts_and_their_requests(page):
    blocked = page.evaluate("""new Promise((done) => {
        const found = [];
        document.addEventListener("securitypolicyviolation", (event) => {
          found.push(event.effectiveDirective);
          if (found.length === 3) done(found.sort());
        });
        new Image().src = "http://127.0.0.1:9/";
        fetch("http://127.0.0.1:9/").catch(() => 0);
        document.body.append(Object.assign(document.createElement("script"), {textContent: "document.title = 'owned'"}));
    })""")
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert page.evaluate("document.title") == "digits-search"


def test_the_report_shows_hostile_failure_messages_as_plain_text(page):
    text = page.evaluate("document.getElementById('failures-table').textContent")
    assert "</script><script>document.title='owned'</script> <!--" in text
    assert "worker/1 was killed" in text
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_a_click_on_a_column_head_sorts_numbers_by_value_and_a_second_click_reverses_the_order(page):
    best_first = [float(value) for value in column(page, "accuracy")]
    assert best_first == sorted(best_first, reverse=True)
    page.click(head("train.data.batch"))
    batches = [int(value) for value in column(page, "train.data.batch")]
    assert batches == sorted(batches) and len(set(batches)) > 1  # "128" < "32" as texts
    page.click(head("train.data.batch"))
    assert column(page, "train.data.batch")[0] == "256"
    assert page.evaluate("document.querySelector('th[title=\"train.data.batch\"]').ariaSort") == "descending"


def test_the_enter_key_on_a_column_head_sorts_the_trials_and_the_head_keeps_the_focus(page):
    page.evaluate(f"document.querySelector({json.dumps(head('trial'))}).focus()")
    page.press("Enter")
    assert column(page, "trial")[:3] == ["0", "1", "2"]
    page.press("Enter")
    assert column(page, "trial")[:2] == ["119", "118"]


def test_trials_without_a_value_come_last_in_both_orders(page):
    for _ in range(2):
        page.click(head("train.optimizer.momentum"))
        values = column(page, "train.optimizer.momentum")
        given = values.index("–")
        assert given > 10 and set(values[given:]) == {"–"}


def test_words_and_conditions_filter_the_trials(page):
    assert count(page) == 120
    page.type("#filter", "adam lr<0.01 batch=64")
    assert 0 < count(page) < 30
    assert all("adam" in value for value in column(page, "train.optimizer.type"))
    assert all(float(value) < 0.01 for value in column(page, "train.optimizer.lr"))
    assert set(column(page, "train.data.batch")) == {"64"}
    page.click("#clear")
    assert count(page) == 120
    page.type("#filter", "256mi")  # this word is only in a failure message
    assert set(column(page, "state")) == {"Failed"}
    page.click("#clear")
    page.type("#filter", "no-such-word")
    assert count(page) == 0


def test_a_click_on_the_button_of_a_state_filters_the_trials_by_this_state(page):
    page.click("#filter-states .failed")
    failed = count(page)
    assert set(column(page, "state")) == {"Failed"}
    page.click("#filter-states .stopped")
    assert count(page) > failed > 0
    assert set(column(page, "state")) == {"Failed", "Stopped"}
    page.click("#filter-states .failed")
    page.click("#filter-states .stopped")
    assert count(page) == 120


def test_a_range_that_is_drawn_on_an_axis_filters_the_trials_and_a_click_removes_the_range(page):
    box = page.evaluate("""(() => {
        document.getElementById("parallel-chart").scrollIntoView({block: "center"});
        const strips = document.querySelectorAll("#parallel-chart .strip");
        const {x, y, width, height} = strips[strips.length - 1].getBoundingClientRect();
        return {x: x + width / 2, y, height};
    })()""")
    page.mouse("mousePressed", box["x"], box["y"] + 4)
    page.mouse("mouseMoved", box["x"], box["y"] + box["height"] * 0.2)
    page.mouse("mouseReleased", box["x"], box["y"] + box["height"] * 0.2)
    page.settle()
    assert 0 < count(page) < 120
    assert "within ranges of accuracy" in page.evaluate("document.getElementById('count').textContent")
    assert page.evaluate("document.querySelectorAll('#parallel-chart .line.off').length") > 0
    page.mouse("mousePressed", box["x"], box["y"] + 40)
    page.mouse("mouseReleased", box["x"], box["y"] + 40)
    page.settle()
    assert count(page) == 120


def test_a_click_or_an_arrow_key_in_the_chart_of_curves_selects_a_trial(page):
    assert page.evaluate("document.getElementById('curves-trial').textContent").startswith("Best: trial ")
    page.click("#curves-chart svg")
    assert page.evaluate("document.getElementById('curves-trial').textContent").startswith("trial ")
    page.evaluate("document.getElementById('curves-chart').focus()")
    before = page.evaluate("document.getElementById('curves-trial').textContent")
    page.press("ArrowLeft")
    assert page.evaluate("document.getElementById('curves-trial').textContent") != before


def test_the_report_draws_all_charts_and_tables_without_invalid_numbers(page):
    assert page.evaluate("document.querySelectorAll('#curves-chart .line').length") == 118  # 117 trials have begun; one is shown in detail
    assert page.evaluate("document.querySelectorAll('#scatter-charts svg').length") == 7
    assert page.evaluate("document.querySelectorAll('#times-table tbody tr').length") == 4
    assert "Functional ANOVA" in page.evaluate("document.getElementById('importance-about').textContent")
    assert page.evaluate("[...document.querySelectorAll('svg path, svg text')].some((each) => /NaN|undefined/.test(each.outerHTML))") is False
    before = page.evaluate("document.querySelector('#curves-chart .line').getAttribute('d')")
    page.click("#curves-log")
    assert page.evaluate("document.querySelector('#curves-chart .line').getAttribute('d')") != before


def test_the_report_is_dark_or_light_as_the_system_or_the_switch_of_the_page_says(chromium, sample):
    url = sample()
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = chromium.open(url, scheme="light"), chromium.open(url, scheme="dark")
    assert light.evaluate(ground) != dark.evaluate(ground)
    light.evaluate("(() => { const theme = document.getElementById('theme'); theme.value = 'dark'; theme.dispatchEvent(new Event('change')); })()")
    assert light.evaluate(ground) == dark.evaluate(ground)


@pytest.mark.parametrize("trials", [0, 120])
def test_the_report_fits_the_width_of_a_phone(chromium, sample, trials):
    page = chromium.open(sample(trials), width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.body.scrollWidth") <= 360
    assert problems(page) == []


def test_the_report_of_30000_trials_lists_20000_of_them_in_pages_of_50(chromium, sample):
    page = chromium.open(sample(30000))
    assert problems(page) == []
    assert len(column(page, "trial")) == 50
    assert count(page) == 20000
    notes = page.evaluate("document.getElementById('notes').textContent")
    assert "trials in the table, the best ones and an even sample: 20000 of 30000" in notes
    assert "learning curves" in notes
    page.click("#pages button:last-child")
    assert "51 to 100 of 20000" in page.evaluate("document.getElementById('pages').textContent")


def test_a_printed_report_has_all_rows_and_light_colours(chromium, sample):
    page = chromium.open(sample(), scheme="dark")
    pdf = base64.b64decode(page.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(column(page, "trial")) == 120
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.getElementById('title')).color") == "rgb(27, 32, 39)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(column(page, "trial")) == 50
