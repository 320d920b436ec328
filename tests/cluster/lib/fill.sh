# fill FILE NAME=VALUE...: prints the file with @NAME@ replaced. Sourced, never run.
fill() {
  local file=$1 pair script=
  shift
  for pair in "$@"; do script+="s|@${pair%%=*}@|${pair#*=}|g;"; done
  sed "$script" "$file"
}
