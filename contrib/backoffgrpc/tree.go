package backoffgrpc

// most is how many errors of a tree are read. The functions of package errors go
// on for ever in a tree that is a cycle.
const most = 10_000

// search reports whether accept accepts err or an error in its tree, in the
// order of errors.As.
func search(err error, accept func(error) bool) bool {
	left := most
	return searchOf(err, &left, accept)
}

func searchOf(err error, left *int, accept func(error) bool) bool {
	for err != nil && *left > 0 {
		*left--
		if accept(err) {
			return true
		}
		branches, inner := unwrap(err)
		for _, branch := range branches {
			if searchOf(branch, left, accept) {
				return true
			}
		}
		err = inner
	}
	return false
}

// unwrap returns what err wraps: one error, or several of which any may be nil.
func unwrap(err error) (branches []error, inner error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return nil, e.Unwrap()
	case interface{ Unwrap() []error }:
		return e.Unwrap(), nil
	}
	return nil, nil
}

// is reports whether target is in the tree of err.
func is(err, target error) bool {
	return search(err, func(err error) bool {
		e, ok := err.(interface{ Is(error) bool })
		return err == target || ok && e.Is(target)
	})
}

// as returns the first T in the tree of err.
func as[T any](err error) (found T, ok bool) {
	ok = search(err, func(err error) (is bool) {
		found, is = err.(T)
		return is
	})
	return found, ok
}
