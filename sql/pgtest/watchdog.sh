# Stops the server below the directory $1 and removes it and the directory $2 of the socket,
# once standard input ends.
trap '' HUP INT TERM
read -r _

pidfile=$1/data/postmaster.pid
if pid=$(head -n 1 "$pidfile" 2>/dev/null); then
	kill -QUIT "$pid" # immediate shutdown: nothing is worth keeping
fi

# The server removes its pid file last. An initdb that is cut short may write a little longer.
tries=0
while [ -e "$pidfile" ] || ! rm -rf "$1" "$2" 2>/dev/null; do
	tries=$((tries + 1))
	[ "$tries" -le 200 ] || exec rm -rf "$1" "$2"
	sleep 0.05
done
