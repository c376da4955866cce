package evidence

import "syscall"

// WASI has no EHOSTDOWN, and no error has the number 0.
const hostDown syscall.Errno = 0
