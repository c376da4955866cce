package errtree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/errtree"
)

// tree wraps errors, and counts how often it is asked which.
type tree struct {
	branches []error
	asked    *int
}

func (t *tree) Error() string   { return "tree" }
func (t *tree) Unwrap() []error { *t.asked++; return t.branches }

// chain wraps an error.
type chain struct {
	inner error
	asked *int
}

func (c *chain) Error() string { return "chain" }
func (c *chain) Unwrap() error { *c.asked++; return c.inner }

// alike says that it is context.Canceled, and a *fs.PathError.
type alike struct{}

func (alike) Error() string        { return "alike" }
func (alike) Is(target error) bool { return target == context.Canceled }
func (alike) As(target any) bool {
	e, ok := target.(**fs.PathError)
	if ok {
		*e = &fs.PathError{Op: "alike"}
	}
	return ok
}

func TestATreeIsSearchedAsPackageErrorsDoes(t *testing.T) {
	path := &fs.PathError{Op: "open", Err: fs.ErrNotExist}
	for _, err := range []error{
		nil, context.Canceled, path, alike{}, fmt.Errorf("x: %w", path), fmt.Errorf("x: %w, %w", alike{}, path),
		errors.Join(errors.New("a"), fmt.Errorf("b: %w", context.Canceled), path), fmt.Errorf("x: %w", error(nil)),
		&tree{branches: []error{nil, errors.Join(path), nil}, asked: new(int)},
	} {
		for _, target := range []error{context.Canceled, fs.ErrNotExist, errors.New("other")} {
			require.Equal(t, errors.Is(err, target), errtree.Is(err, target), "%v in %v", target, err)
		}
		var want *fs.PathError
		found := errors.As(err, &want)
		got, ok := errtree.As[*fs.PathError](err)
		require.Equal(t, found, ok, "%v", err)
		require.Equal(t, want, got, "%v", err)
	}
}

func TestATimeoutIsAskedOfOneErrorOnly(t *testing.T) {
	require.True(t, errtree.IsTimeout(context.DeadlineExceeded))
	require.False(t, errtree.IsTimeout(&net.DNSError{}), "it has the method")
	for _, err := range []error{nil, context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded), errors.Join(context.DeadlineExceeded)} {
		require.False(t, errtree.IsTimeout(err), "%v", err)
	}
}

func TestATreeWithoutAnEndIsSearchedUpToMost(t *testing.T) {
	for name, build := range map[string]func(asked *int) error{
		"a chain that is a cycle": func(asked *int) error { c := &chain{asked: asked}; c.inner = c; return c },
		"a tree that is a cycle": func(asked *int) error {
			n := &tree{asked: asked}
			n.branches = []error{n, n}
			return n
		},
		"branches that are the same": func(asked *int) error {
			var err error = &tree{asked: asked}
			for range 100 {
				err = &tree{branches: []error{err, err}, asked: asked}
			}
			return err
		},
		"too wide": func(asked *int) error {
			n := &tree{asked: asked}
			for range 3 * errtree.Most {
				n.branches = append(n.branches, &tree{asked: asked})
			}
			return n
		},
		"too deep": func(asked *int) error {
			var err error
			for range 3 * errtree.Most {
				err = &chain{inner: err, asked: asked}
			}
			return err
		},
	} {
		asked := 0
		require.False(t, errtree.Is(build(&asked), context.Canceled), name)
		require.Equal(t, errtree.Most, asked, name)
		asked = 0
		_, found := errtree.As[*fs.PathError](build(&asked))
		require.False(t, found, name)
		require.Equal(t, errtree.Most, asked, name)
	}
}

func TestWhatIsWithinMostIsFound(t *testing.T) {
	asked, wide := 0, &tree{asked: new(int)}
	var deep error = context.Canceled
	for range errtree.Most - 1 {
		deep = &chain{inner: deep, asked: &asked}
	}
	wide.branches = append(make([]error, 3*errtree.Most), context.Canceled) // nil is no error
	require.True(t, errtree.Is(deep, context.Canceled))
	require.True(t, errtree.Is(wide, context.Canceled))
	require.False(t, errtree.Is(&chain{inner: deep, asked: &asked}, context.Canceled), "one too many")
}
