//go:build !windows && !plan9

package evidence

// posix returns the number by which ConnectionErrorOf knows an error.
func posix(e Errno) Errno { return e }
