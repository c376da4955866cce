package evidence_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/evidence"
)

// What the errors mean is tested at the root, by DefaultClassifier.

type azure struct{ error }

func (azure) NonRetriable() {}

var errPlain = errors.New("plain")

func TestTheCallerMayReadTypesOfItsOwn(t *testing.T) {
	look := func(err error) (error, bool) {
		if _, ok := err.(azure); ok {
			return context.DeadlineExceeded, true
		}
		return nil, false
	}
	require.Equal(t, evidence.Retryable, evidence.Of(fmt.Errorf("layer: %w", azure{errPlain}), look, false))
}

func TestNoneIsTrueOfErrorsThatSayNothing(t *testing.T) {
	require.True(t, evidence.None(&struct{ error }{errPlain}))
	for _, err := range []error{azure{errPlain}, syscall.ENOENT, errors.Join(errPlain), fmt.Errorf("%w", errPlain), context.Canceled, io.ErrUnexpectedEOF, x509.UnknownAuthorityError{}} {
		require.False(t, evidence.None(err), "%T", err)
	}
}
