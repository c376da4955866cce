package controlhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzForm(f *testing.F) {
	f.Add(off().Encode(), "text/html")
	f.Add("do=clear&what=retries&name=search&why=over", "")
	f.Add("what=spec&name=search&to=%7B%22maxAttempts%22%3A+2%7D&why=x&for=1h", "application/json")
	f.Add("what=breakers&name=*&to=forced+open&why=x&for=-1s", "*/*")
	f.Add("what=%zz&name=a;b", "text/html,")
	f.Fuzz(func(t *testing.T, body, accept string) {
		b := newBoard()
		r := httptest.NewRequest(http.MethodPost, "https://ops.example.com/debug/control", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", accept)
		r.SetBasicAuth("ada", "secret")
		w := b.answer(r)
		changed := w.Code == http.StatusSeeOther || w.Code == http.StatusOK
		require.True(t, changed || w.Code == http.StatusBadRequest, w.Code)
		require.Equal(t, changed, len(b.Overrides()) == 1, "what is refused changes nothing")
		for _, o := range b.Overrides() {
			require.Equal(t, "ada", o.Who)
			require.NotEmpty(t, o.Why)
			require.False(t, o.Until.IsZero(), "each has an end")
		}
		if w.Code == http.StatusBadRequest {
			require.Equal(t, 1, strings.Count(w.Body.String(), "\n"), "one line: %q", w.Body)
			require.Less(t, w.Body.Len(), 1000)
		}
		require.NotContains(t, b.answer(get("text/html")).Body.String(), "<script")
	})
}
