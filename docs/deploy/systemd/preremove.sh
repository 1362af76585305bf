#!/bin/sh
# Stops all processes before a removal, but not before an upgrade: its argument
# is remove from dpkg, 0 from rpm.
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac
for link in /etc/systemd/system/*.wants/idworker@*.service; do
	[ ! -L "$link" ] || rm "$link"
done
if [ -d /run/systemd/system ]; then
	systemctl stop 'idworker@*.service'
fi
