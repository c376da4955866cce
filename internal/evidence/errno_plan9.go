package evidence

import "syscall"

// errno is what the kernel says: Plan 9 has texts instead of numbers.
type errno = syscall.ErrorString

// ofErrno reads what the kernel says of a connection. Refused means that
// nothing was sent. After a hangup the server may have acted.
func ofErrno(e errno) finding {
	switch {
	case refused(e):
		return weak.says(NotSent)
	case e == "i/o on hungup channel", e.Temporary():
		return weak.says(Retryable)
	}
	return 0
}

func refused(e errno) bool { return e == "connection refused" }
