package backoff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A mute error panics where its text is asked for.
type mute struct{ text string }

func (m *mute) Error() string { return m.text }

func TestAPanicWhoseTextPanicsIsReportedAllTheSame(t *testing.T) {
	require.NotPanics(t, func() { reportPanic((*mute)(nil)) })
}
