package backofftest

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// complaint returns the failure that check reports.
func complaint(t *testing.T, check func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.said
}

// requireCaught requires check to report a failure that contains want.
func requireCaught(t *testing.T, want string, check func(testing.TB)) {
	t.Helper()
	require.Contains(t, complaint(t, check), want)
}
