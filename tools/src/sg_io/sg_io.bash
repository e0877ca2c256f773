# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion of sg_io for bash. The names of commands, options and their values come from the help
# texts of the program itself.

# Prints the help of the program, or of a command, with each option on a line of its own.
_sg_io_help() {
	ARGP_HELP_FMT=rmargin=250 "$program" "$@" --help 2>/dev/null
}

_sg_io_commands() {
	# The commands are listed in the paragraph after the first empty line.
	_sg_io_help | sed -nE '/^$/,/^$/s/^  ([a-z-]+) .*/\1/p; /^.sg_io COMMAND/q'
}

# Prints the long options of a command; an option that needs a value ends with '='.
_sg_io_options() {
	_sg_io_help "$1" | sed -nE 's/^  (-., |    )(--[a-z-]+=?).*/\2/p'
}

# _sg_io_values COMMAND OPTION: prints the values of an option, if they can be listed.
_sg_io_values() {
	case $2 in
	--via)
		_sg_io_help run | sed -nE '/^Paths:/,/^[^ P]/s/^  ([a-z-]+) .*/\1/p'
		;;
	--mode) _sg_io_help "$1" | sed -nE '/^Modes:/,/^[^ M]/s/^  ([a-z-]+) .*/\1/p' ;;
	--pace) printf '%s\n' kernel user ;;
	--device) _sg_io_devices ;;
	--op) "$program" gen --op help 2>/dev/null ;;
	--from) "$program" import --from help 2>/dev/null | cut -d ' ' -f 1 ;;
	--pattern)
		# "zero, byte:N, random[:SEED] (lba)" becomes "zero byte: random random:".
		_sg_io_help "$1" | sed -nE '/--pattern=/{s/.*: ([a-z]+, )/\1/; s/ \(.*//
			s/\[:PASS\]//; s/([a-z]+)\[:[A-Z]+\]/\1 \1:/g; s/:[A-Z]+/:/g; s/,//g; p}'
		;;
	esac
}

# Prints the nodes and addresses of SCSI devices; partitions are left out.
_sg_io_devices() {
	local at
	for at in /dev/sg[0-9]* /dev/smqsg[0-9]* /dev/bsg/*:*:*:* /dev/sd*[a-z] \
		/sys/bus/scsi/devices/*:*:*:*; do
		[[ ! -e $at ]] || printf '%s\n' "${at#/sys/bus/scsi/devices/}"
	done
}

# _sg_io_match WORD: offers the words of the standard input that begin with WORD.
_sg_io_match() {
	mapfile -t COMPREPLY < <(compgen -W "$(cat)" -- "$1")
}

_sg_io_files() {
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
	compopt -o filenames 2>/dev/null
}

# _sg_io_value COMMAND OPTION WORD: offers the values of an option that begin with WORD.
_sg_io_value() {
	local list=''
	if [[ $2 == @(--output|--svg|--log) ]]; then
		_sg_io_files "$3"
		return
	fi
	# compare takes a list of paths: only the last one is completed.
	[[ $1 != compare || $2 != --via || $3 != *,* ]] || list=${3%,*},
	_sg_io_match "${3#"$list"}" < <(_sg_io_values "$1" "$2")
	COMPREPLY=("${COMPREPLY[@]/#/$list}")
	# The value is not complete: no space after it.
	[[ ${COMPREPLY[*]-} != *: ]] || compopt -o nospace 2>/dev/null
}

# _sg_io_argument COMMAND NUMBER WORD: offers devices or files for the argument with this number,
# from 0.
_sg_io_argument() {
	local usage
	usage=$(_sg_io_help "$1" | head -n 1)
	COMPREPLY=()
	[[ $usage != *' DEV'* || $2 -gt 0 && ($usage != *'DEV...'* || $3 != /dev/*) ]] ||
		_sg_io_match "$3" < <(_sg_io_devices)
	# Offer files also for a device, because a link to a node is allowed.
	((${#COMPREPLY[@]})) || [[ ! $usage =~ ' '(DEV|FILE|ORIGINAL) ]] || _sg_io_files "$3"
}

_sg_io() {
	local program=${1/#~\//$HOME/} line=${COMP_LINE:0:COMP_POINT} current='' command='' \
		expects='' options='' word arguments=0 breaks=''
	local -a words
	# Split the line at blanks only: bash splits COMP_WORDS at '=' and ':', too.
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
		elif [[ $word == -o && $command == @(record|import) ]]; then
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

	# If a word contains these characters, bash replaces only the part after the last one.
	[[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
	[[ $COMP_WORDBREAKS != *=* ]] || breaks+='='
	if [[ -n $breaks && $current == *[$breaks]* ]]; then
		word=${current%"${current##*["$breaks"]}"}
		COMPREPLY=("${COMPREPLY[@]#"$word"}")
	fi
}

complete -F _sg_io sg_io
