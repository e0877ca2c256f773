# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by devices.sh: the request queues that nodes of smq_sg have of their own. On a host with
# one LUN such a queue makes the host's tags shared, which costs block I/O instructions. So it exists
# while smq_sg is measured, and does not exist while other paths are measured.

OWN_TRIES=200	# of 0.05 s each
OWN_FILES=()	# open nodes: a node's queue ends some seconds after its last file was closed

# own_mode on|off: says when all nodes get a queue; fails if this module or kernel has none
own_mode() {
	local knob
	for knob in /sys/class/smq_sg/*/own_queue; do
		[[ -e $knob ]] && echo "$1" 2> /dev/null > "$knob" || return 1
	done
}

# own_wait 0|1 NODE...: waits until these nodes have no queue of their own, or each has one
own_wait() {
	local wanted=$1 node file tries
	shift
	for node in "$@"; do
		file=/sys/class/smq_sg/${node##*/}/own_queue_exists
		for (( tries = 0; tries < OWN_TRIES; tries++ )); do
			[[ $(< "$file") != "$wanted" ]] || continue 2
			sleep 0.05
		done
		die "$file is not $wanted"
	done
}

# own_queues KIND DISK...: before a workload: gives these disks' nodes a queue of their own if the
# workload uses nodes of kind smqsg or disk_own; otherwise ends the queues of all nodes
own_queues() {
	local kind=$1 disk node nodes=() file
	shift
	if [[ $kind != smqsg && $kind != disk_own ]]; then
		! own_mode off || own_wait 0 /sys/class/smq_sg/*
		return
	fi
	own_mode on || return 0
	for disk in "$@"; do
		node=/dev/$(node_of smqsg "$disk")
		nodes+=("$node")
		exec {file}<> "$node"
		OWN_FILES+=("$file")
		# The first command asks for the queue.
		sg_turs "$node" > /dev/null || die "$node: TEST UNIT READY failed"
	done
	own_wait 1 "${nodes[@]}"
}

# After a workload: closes the nodes.
own_closed() {
	local file
	for file in "${OWN_FILES[@]}"; do
		exec {file}>&-
	done
	OWN_FILES=()
}
