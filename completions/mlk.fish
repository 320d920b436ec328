# fish completion for mlk. It asks the program, so it cannot drift from it.
function __mlk_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command $words[1] __complete $words[2..-1] 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path (commandline -ct)
    else
        string join \n -- $found
    end
end
complete -c mlk -f -a '(__mlk_complete)'
