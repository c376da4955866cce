package evidence

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// alike has all the fields that the classifier may read, and nothing else of the error of
// a client: the zero value of a field is as good as none.
type alike struct {
	Code, StatusCode, HTTPStatusCode int
	ErrorCode, Op                    string
	Retriable, IsNotFound            bool
	Response                         *struct{ StatusCode int }
	ErrStatus                        struct{ Code int }

	text string
}

func (a *alike) Error() string { return a.text }

// The rows are those that internal/lab/plugtest makes with the real clients. What their
// errors say by name, they say to a program that imports no client.
func TestErrorsSayTheSameWithoutTheClientsThatMakeThem(t *testing.T) {
	file, err := os.Open("testdata/classes.json")
	require.NoError(t, err)
	defer file.Close()
	byName := 0
	for rows := bufio.NewScanner(file); rows.Scan(); {
		var row struct {
			Name, Classes string
			Sees          []struct {
				Type, Text string
				Fields     json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(rows.Bytes(), &row))
		var found finding
		byField := false
		for _, one := range row.Sees {
			err := &alike{text: one.Text}
			if one.Fields != nil {
				_ = json.Unmarshal(one.Fields, err) // a Code may be a text, which is not read
			}
			dot := strings.LastIndex(one.Type, ".")
			by := saidByName(one.Type[:dot], one.Type[dot+1:], err)
			byField = byField || by == byStatus || by == byGrant || by == byReply || by == byRetriable
			found = max(found, ofNamed(err, by))
		}
		if found != 0 || byField {
			byName++
			require.Equal(t, row.Classes[0], "UNRTOP"[found&classBits], row.Name)
		}
	}
	require.Greater(t, byName, 100)
}
