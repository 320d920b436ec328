# bash completion for mlk. It asks the program, so it cannot drift from it.
_mlk() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == :files ]]; then
    COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    compopt -o filenames 2>/dev/null
  elif [[ ${COMPREPLY[0]} == *[=.] ]]; then
    compopt -o nospace 2>/dev/null   # a key, whose next part or value comes at once
  fi
}
complete -F _mlk mlk
