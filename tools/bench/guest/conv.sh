# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by devices.sh: the disks of other rows, claimed by smq_conv, and lower hosts with one
# queue beside them.

CONV=/sys/bus/scsi/drivers/smq_conv

# The claims of the row before end with the module.
conv_gone() {
	unload smq_conv
}

# conv_up ROW: what row ROW brings up, claimed
conv_up() {
	local address
	"row_$1" || return 1
	local bare=("${DISKS[@]}") disk
	load "$ROW" smq_conv
	for disk in "${bare[@]}"; do
		address=$(basename "$(readlink -f "$(device_of "$disk")")")
		echo "$address" > "$CONV/claim" || die "smq_conv: claim $address refused"
		note "param $ROW claim $address"
	done
	wait_scsi smq_conv "$LUNS"
}

row_conv_scsi_debug() {
	conv_up scsi_debug
}

row_scsi_debug_1q() {
	scsi_debug_up "$ROW" submit_queues=1
	scsi_debug_set fake_rw 1
}

row_conv_scsi_debug_1q() {
	conv_up scsi_debug_1q
}

row_conv_smq_ram() {
	conv_up smq_ram
}

row_conv_smq_ram_1q() {
	conv_up smq_ram_1q
}

row_conv_tcm_loop_rd() {
	conv_up tcm_loop_rd
}
