#!/bin/sh
# local.sh run|nats|cluster [OFFSET] writes the settings of what `make run`, `make nats`
# and `make cluster` are about to start on this machine. They go to the folder nats-data;
# docs/getting-started.md reads them into its terminals. OFFSET is added to each port.
#
#	run.env     for a terminal beside `make run`: the address, and no user
#	USER.env    for a terminal of a user of nats.conf: addresses, name, password, inbox prefix
#	server.env  for the server of `make nats`: the folder of its data, hashes of the passwords
#	ids-N.env   for the server ids-N of cluster.conf
#	passwords   one for each user, generated once; a password in the environment takes precedence
set -eu
fail() { printf '%s\n' "$1" >&2; exit 2; }
target=$1 offset=${2:-0}
case $offset in
*[!0-9]* | 0?* | ??????*) allowed=no ;;
*) [ "$offset" -le $((65535 - 9090)) ] && allowed=yes || allowed=no ;;
esac
[ $allowed = yes ] || fail "PORT_OFFSET=$offset: allowed are 0 to $((65535 - 9090)), because the highest port that it moves is 9090, and ports end at 65535"
# Such a terminal has hashes in the place of passwords, and the folder of one server.
! env | grep -q '^IDS_[A-Z_]*_PASSWORD=.*\$2[aby]\$' || fail "this terminal has the settings of a server: use a new one"
address() { echo "127.0.0.1:$(($1 + offset))"; }
urls=nats://$(address 4222)
umask 077
mkdir -p nats-data
chmod 700 nats-data
save() { # FILE, from standard input; a reader finds the old file or the new one
	cat >"nats-data/.$1.$$" && mv "nats-data/.$1.$$" "nats-data/$1"
}
if [ "$target" = run ]; then
	printf 'export NATS_URL=%s\nunset NATS_USER NATS_PASSWORD IDWORKER_INBOX_PREFIX\n' "$urls" | save run.env
	exit
fi

# Each user with its inbox prefix, as in admin=_INBOX_admin.
users="$(bin/idworker rights --format json | sed -nE 's/^ *"(user|inbox)": "(.*)",$/\2/p' | paste -d = - -) sys=_INBOX"
variable() { echo "IDS_$(echo "$1" | tr a-z- A-Z_)_PASSWORD"; }
touch nats-data/passwords
for user in $users route; do
	name=$(variable "${user%=*}")
	grep -q "$name=" nats-data/passwords ||
		echo "export $name=\"\${$name:-p$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}\"" >>nats-data/passwords
done
. ./nats-data/passwords
case $target$IDS_ROUTE_PASSWORD in # it stands in URLs, so nothing may have to be escaped
cluster*[!A-Za-z0-9]*) fail "IDS_ROUTE_PASSWORD: allowed are letters and digits" ;;
esac

# The server warns of passwords that are not hashed.
hashes=$(env | bin/idworker hash)

[ "$target" = nats ] || urls=$urls,nats://$(address 4223),nats://$(address 4224)
for user in $users; do
	inbox=${user#*=} user=${user%=*}
	eval "password=\$$(variable "$user")"
	case $password in
	'"'*'"') password=${password#?}; password=${password%?} ;; # quotes of the server's syntax
	esac
	{
		echo "export NATS_URL=$urls"
		echo "export NATS_USER=$user IDWORKER_INBOX_PREFIX=$inbox"
		printf "export NATS_PASSWORD='%s'\n" "$(printf %s "$password" | sed "s/'/'\\\\''/g")"
	} | save "$user.env"
done

server() { # FILE, from the settings on standard input
	{ cat && printf '%s\n' "$hashes" | sed 's/^/export /'; } | save "$1"
}
if [ "$target" = nats ]; then
	echo 'export IDS_NATS_DATA="${IDS_NATS_DATA:-nats-data}"' | server server.env
	exit
fi
route=nats://route:$IDS_ROUTE_PASSWORD
for n in 1 2 3; do
	server ids-$n.env <<END
export IDS_SERVER_NAME=ids-$n
export IDS_LISTEN=$(address $((4221 + n)))
export IDS_CLUSTER_LISTEN=$(address $((6221 + n)))
export IDS_NATS_DATA=nats-data/ids-$n
export IDS_ROUTE_PASSWORD=$IDS_ROUTE_PASSWORD
export IDS_ROUTES='[$route@$(address 6222), $route@$(address 6223), $route@$(address 6224)]'
END
done
