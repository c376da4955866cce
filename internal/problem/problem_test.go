package problem

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProblemReplacesWhatTheAnswerWouldHaveBeen(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "7")
	w.Header().Set("Content-Type", "text/html")
	Write(w, Details{Type: "https://x/y", Title: "no key", Status: 400})
	require.Equal(t, 400, w.Code)
	require.JSONEq(t, `{"type":"https://x/y","title":"no key","status":400}`, w.Body.String())
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Empty(t, w.Header().Get("Content-Length"))
}

func TestAProblemWithoutAPageHasNoType(t *testing.T) {
	w := httptest.NewRecorder()
	Write(w, Details{Title: "down", Status: 503})
	require.Equal(t, `{"title":"down","status":503}`+"\n", w.Body.String())
}
