package sql

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// servedBy tells whether a process of the server was started by the one that listens on the socket, as PostgreSQL's are: see
// SO_PEERCRED in unix(7). A pooler listens on its own. The number is the server's, whose namespace of processes may be another, so
// that it is somebody else's here: but PostgreSQL's go by the name of the one that has started them, as hardly any others do.
func servedBy(wire *net.UnixConn, pid int64) bool {
	var listener *syscall.Ucred
	raw, err := wire.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			listener, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
	}
	if err != nil || listener == nil {
		return false
	}
	server, _ := process(int64(listener.Pid))
	name, parent := process(pid)
	return name != "" && name == server && parent == fmt.Sprint(listener.Pid)
}

// process returns the name of a process, and the number of the one that has started it: see proc_pid_stat(5). Empty: there is none.
func process(pid int64) (name, parent string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	// The name in parentheses is the process's to choose; behind it are its state and its parent.
	end := strings.LastIndexByte(string(stat), ')')
	behind := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(behind) < 2 {
		return "", ""
	}
	_, name, _ = strings.Cut(string(stat[:end]), "(")
	return name, behind[1]
}
