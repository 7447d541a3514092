# Bash completion of fusedmoe: `source fusedmoe.bash`, or install it as
# share/bash-completion/completions/fusedmoe.
#
# Commands, options and values are read from the program's own --help, so they cannot go stale. What
# is not an option or a listed value is completed as a file name.

_fusedmoe_help() {
  "${COMP_WORDS[0]}" "$@" --help 2>/dev/null
}

_fusedmoe_commands() {
  _fusedmoe_help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_fusedmoe_options() {
  _fusedmoe_help "$@" | sed -n '/^Options:/,/^$/p' | grep -oE -- '^  (-h,)?--[a-z][a-z-]*' |
    sed 's/^  //; s/^-h,//'
}

# The values of an option that lists them in lower case: "--dtype f32|bf16|f16=bf16".
_fusedmoe_values() {
  _fusedmoe_help "$1" | sed -n "s/^  $2 \([a-z0-9_]*|[a-z0-9_|]*\).*/\1/p" | tr '|' ' '
}

_fusedmoe() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} previous words
  if ((COMP_CWORD == 1)); then
    words="$(_fusedmoe_commands) $(_fusedmoe_options)"
  elif [[ $current == -* ]]; then
    words=$(_fusedmoe_options "$command")
  else
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    [[ $previous == --* ]] && words=$(_fusedmoe_values "$command" "$previous")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o default -F _fusedmoe fusedmoe
