#!/bin/sh
# dpkg's purge removes the configuration too. The data in /var/lib/idworker
# stays.
set -e
if [ "$1" = purge ]; then
	rm -rf /etc/idworker
	rm -f /etc/credstore/idworker.*
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
