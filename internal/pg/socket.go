package pg

import (
	"errors"
	"net"
	"syscall"
)

// socketOf returns the socket of a network connection. Returns nil if it has none.
func socketOf(conn net.Conn) syscall.RawConn {
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// hasInput tells whether the other side of a socket has sent something, or has ended the connection. A server sends
// nothing to an idle session but its end, and rarely a change of a setting, after which a new session is right too.
func hasInput(socket syscall.RawConn) (has bool) {
	if socket == nil {
		return false
	}
	// Control, because Read heeds the deadline of the last read, which has passed.
	closed := socket.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		has = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return has || closed != nil
}
