package backoff

import "syscall"

// errnoEvidence sorts what Winsock says of a connection. syscall.ECONNREFUSED and
// its like are invented numbers on Windows: the sockets report these.
func errnoEvidence(e syscall.Errno) evidence {
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
	switch e {
	case wsaECONNREFUSED, wsaEHOSTUNREACH, wsaENETUNREACH, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return evidence{ClassNotSent, circumstantial}
	case wsaECONNRESET, wsaECONNABORTED, wsaETIMEDOUT, wsaENETDOWN, wsaENETRESET,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
		syscall.ERROR_BROKEN_PIPE, syscall.ERROR_NETNAME_DELETED:
		return evidence{ClassRetryable, circumstantial}
	}
	if e.Temporary() || e.Timeout() {
		return evidence{ClassRetryable, circumstantial}
	}
	return evidence{}
}
