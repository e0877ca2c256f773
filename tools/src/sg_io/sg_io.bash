# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion of sg_io for bash. Which commands, options and paths there are the program itself is
# asked, whose help has them all; what else an option may be given is in _sg_io_values().

# The help of the program, or of a command: each option on a line of its own.
_sg_io_help() {
	ARGP_HELP_FMT=rmargin=250 "$program" "$@" --help 2>/dev/null
}

_sg_io_commands() {
	# The paragraph behind the first empty line.
	_sg_io_help | sed -nE '/^$/,/^$/s/^  ([a-z-]+) .*/\1/p; /^.sg_io COMMAND/q'
}

# Long options; behind those that want a value is '='.
_sg_io_options() {
	_sg_io_help "$1" | sed -nE 's/^  (-., |    )(--[a-z-]+=?).*/\2/p'
}

# _sg_io_values COMMAND OPTION: what it may be given, as far as it can be listed.
_sg_io_values() {
	case $2 in
	--via)
		# A replay refuses the path that has one command at a time in flight; verify keeps nothing.
		_sg_io_help run | sed -nE '/^Paths:/,/^[^ P]/s/^  ([a-z-]+) .*/\1/p' |
			case $1 in
			replay) grep -vx bsg ;;
			verify) grep -vx smq-held ;;
			*) cat ;;
			esac
		;;
	--op) "$program" gen --op help 2>/dev/null ;;
	--pattern) echo zero ff byte: count lba random random: ;;
	esac
}

# Nodes of SCSI devices and their addresses; partitions are none.
_sg_io_devices() {
	local at
	for at in /dev/sg[0-9]* /dev/smqsg[0-9]* /dev/bsg/*:*:*:* /dev/sd*[a-z] \
		/sys/bus/scsi/devices/*:*:*:*; do
		[[ ! -e $at ]] || printf '%s\n' "${at#/sys/bus/scsi/devices/}"
	done
}

# _sg_io_match WORD: what of the standard input begins with it.
_sg_io_match() {
	mapfile -t COMPREPLY < <(compgen -W "$(cat)" -- "$1")
}

_sg_io_files() {
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
	compopt -o filenames 2>/dev/null
}

# _sg_io_value COMMAND OPTION WORD: COMPREPLY gets what WORD, a value, may become.
_sg_io_value() {
	local list=''
	if [[ $2 == --output ]]; then
		_sg_io_files "$3"
		return
	fi
	# compare takes a list.
	[[ $1 != compare || $2 != --via || $3 != *,* ]] || list=${3%,*},
	_sg_io_match "${3#"$list"}" < <(_sg_io_values "$1" "$2")
	COMPREPLY=("${COMPREPLY[@]/#/$list}")
	# More follows.
	[[ ${COMPREPLY[*]-} != *: ]] || compopt -o nospace 2>/dev/null
}

# _sg_io_argument COMMAND NUMBER WORD: the same for one without an option.
_sg_io_argument() {
	local usage
	usage=$(_sg_io_help "$1" | head -n 1)
	COMPREPLY=()
	[[ $usage != *' DEV'* || $2 -gt 0 && ($usage != *'DEV...'* || $3 != /dev/*) ]] ||
		_sg_io_match "$3" < <(_sg_io_devices)
	# A link to a node will do as well.
	((${#COMPREPLY[@]})) || [[ $usage != *' DEV'* && $usage != *' FILE'* ]] || _sg_io_files "$3"
}

_sg_io() {
	local program=${1/#~\//$HOME/} line=${COMP_LINE:0:COMP_POINT} current='' command='' \
		expects='' options='' word arguments=0 breaks=''
	local -a words
	# Split at blanks alone: bash has split at '=' and ':', too.
	read -ra words <<<"$line"
	if [[ $line != *[[:blank:]] ]]; then
		current=${words[-1]}
		unset 'words[-1]'
	fi
	COMPREPLY=()
	command=${words[1]-}
	[[ -z $command ]] || options=$(_sg_io_options "$command")
	for word in "${words[@]:2}"; do
		if [[ -n $expects ]]; then
			expects=''
		elif [[ $word == -o && $command == record ]]; then
			expects=--output
		elif [[ $word == --* ]]; then
			[[ $'\n'$options$'\n' != *$'\n'"$word="$'\n'* ]] || expects=$word
		elif [[ $word != -?* ]]; then
			((++arguments))
		fi
	done

	if [[ -z $command ]]; then
		_sg_io_match "$current" < <(_sg_io_commands; echo --help)
	elif [[ -n $expects ]]; then
		_sg_io_value "$command" "$expects" "$current"
	elif [[ $current == --*=* ]]; then
		word=${current%%=*}
		_sg_io_value "$command" "$word" "${current#*=}"
		COMPREPLY=("${COMPREPLY[@]/#/$word=}")
	elif [[ $current == -* ]]; then
		_sg_io_match "$current" <<<"$options"
		[[ ${COMPREPLY[*]-} != *= ]] || compopt -o nospace 2>/dev/null
	else
		_sg_io_argument "$command" "$arguments" "$current"
	fi

	# Of a word with one of these bash replaces only what is behind the last of them.
	[[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
	[[ $COMP_WORDBREAKS != *=* ]] || breaks+='='
	if [[ -n $breaks && $current == *[$breaks]* ]]; then
		word=${current%"${current##*["$breaks"]}"}
		COMPREPLY=("${COMPREPLY[@]#"$word"}")
	fi
}

complete -F _sg_io sg_io
