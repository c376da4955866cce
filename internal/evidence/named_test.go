package evidence

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

type slice []error

func (slice) Error() string { return "GET a giving up after 4 attempt(s)" }

func TestTheTextOfALoopCountsOnlyInErrorsThatHaveNoMore(t *testing.T) {
	text := errors.New("GET a giving up after 4 attempt(s)")
	require.True(t, GaveUp(text))
	require.True(t, GaveUp(fmt.Errorf("GET a giving up after 4 attempt(s): %w", errors.New("down"))))
	require.False(t, GaveUp(slice{text}))
	require.False(t, GaveUp(errors.Join(text)), "the branch says so, not the tree")
}

// The classifier reads fields of types that it does not import. Should one be
// renamed, it must be found here, and do no harm there. internal/lab/plugtest
// asks about the types of other libraries.
func TestFieldsOfForeignErrorsAreFoundByName(t *testing.T) {
	require.Equal(t, "true", field(&net.DNSError{IsNotFound: true}, "IsNotFound"))
	require.Equal(t, "false", field(&net.DNSError{}, "IsNotFound"))
	require.Equal(t, "read", field(&net.OpError{Op: "read"}, "Op"))
	for _, err := range []error{&url.Error{}, slice{}, (*net.OpError)(nil)} {
		require.Empty(t, field(err, "Err"), "%T", err)
	}
	require.Equal(t, nothing, saidBy((*net.OpError)(nil)), "a pointer to nothing")
}

func TestOnlyAWholeTextIsFinal(t *testing.T) {
	for _, text := range final {
		require.Equal(t, permanent, saidByText(text), text)
		require.Equal(t, nothing, saidByText("x"+text), text)
		require.Equal(t, nothing, saidByText(text+": x"), text)
	}
}
