package sql

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// servedBy tells whether a process of the server was started by the one that listens on the socket, as PostgreSQL's are: see
// SO_PEERCRED in unix(7), and proc_pid_stat(5). A pooler listens on its own.
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name in parentheses is the process's to choose; behind it are its state and its parent.
	behind := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return len(behind) > 1 && behind[1] == fmt.Sprint(listener.Pid)
}
