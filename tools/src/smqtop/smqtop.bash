# SPDX-License-Identifier: GPL-2.0
# Completion of smqtop's options for bash. A test compares them with smqtop --help.

_smqtop() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]:-} words
	local options="--view= --sort= --filter= --interval= --count= --record= --replay= --prometheus= --once --json --sysfs --counts --sample= --slow= --cost= --help --usage --version"

	# bash makes a word of its own of the "=" in --view=hosts.
	if [[ $word == = ]]; then
		word=
	elif [[ $before == = ]]; then
		before=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $before in
	--view) words="hosts luns queues opcodes errors commands files smq" ;;
	--sort) words="name iops mbps inflight p50 p90 p99 p999 queue size errors" ;;
	--record | --replay | --prometheus | --cost)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	--filter | --interval | --count | --sample | --slow | -[fic]) words= ;;
	*) words=$options ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	[[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}

complete -F _smqtop smqtop
