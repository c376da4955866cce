package evidence

import "syscall"

// errno is what the system says.
type errno = syscall.Errno

// The sockets of Winsock report these numbers. syscall.ECONNREFUSED and the
// like are numbers that Go made up on Windows.
const (
	wsaENETDOWN     = 10050
	wsaENETUNREACH  = 10051
	wsaENETRESET    = 10052
	wsaECONNABORTED = 10053
	wsaECONNRESET   = 10054
	wsaETIMEDOUT    = 10060
	wsaECONNREFUSED = 10061
	wsaEHOSTUNREACH = 10065
)

// ofErrno reads what Winsock says of a connection.
func ofErrno(e errno) finding {
	switch e {
	case wsaECONNREFUSED, wsaEHOSTUNREACH, wsaENETUNREACH, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return weak.says(NotSent)
	case wsaECONNRESET, wsaECONNABORTED, wsaETIMEDOUT, wsaENETDOWN, wsaENETRESET,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
		syscall.ERROR_BROKEN_PIPE, syscall.ERROR_NETNAME_DELETED:
		return weak.says(Retryable)
	}
	if e.Temporary() || e.Timeout() {
		return weak.says(Retryable)
	}
	return 0
}

func refused(e errno) bool { return e == wsaECONNREFUSED || e == syscall.ECONNREFUSED }
