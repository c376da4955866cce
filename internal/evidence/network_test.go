package evidence

import (
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// The classifier reads fields of types that it does not import. Should one be
// renamed, it must be found here, and do no harm there.
func TestFieldsOfForeignErrorsAreFoundByName(t *testing.T) {
	require.True(t, field(&net.DNSError{IsNotFound: true}, "IsNotFound").Bool())
	require.Equal(t, "read", field(&net.OpError{Op: "read"}, "Op").String())
	require.False(t, field(&url.Error{}, "IsNotFound").IsValid())
}
