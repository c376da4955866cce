//go:build !plan9 && !wasip1

package evidence

import "syscall"

const hostDown = syscall.EHOSTDOWN
