package plug

import "github.com/gobackoff/backoff"

// OnCode returns a [backoff.Classifier] that retries exactly the errors whose
// code is among codes; of returns the code of an error. OnCode fits any kind of
// code without importing its package:
//
//	plug.OnCode(status.Code, codes.Unavailable, codes.Aborted)
func OnCode[C comparable](of func(error) C, codes ...C) backoff.Classifier {
	return backoff.RetryIf(func(err error) bool {
		code := of(err)
		for _, c := range codes {
			if c == code {
				return true
			}
		}
		return false
	})
}
