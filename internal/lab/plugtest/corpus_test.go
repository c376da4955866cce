//go:build nightly

package plugtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/internal/errtree"
)

var corpus = slices.Concat(systemRows, libraryRows, replyRows, grantRows, databaseRows, sessionRows, brokerRows, apiRows)

// letters are those of the classes, in the order of backoff.Class.
const letters = "UNRTOP"

func classesOf(err error) string {
	var all []byte
	for _, c := range []backoff.Classifier{backoff.DefaultClassifier, backoffhttp.Classify, backoffsql.Classify} {
		all = append(all, letters[c(err)])
	}
	return string(all)
}

// hidden is all that a program knows of an error whose package it does not import.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }
func (h hidden) Unwrap() error { return h.err }

func TestErrorsOfRealClientsHaveTheirClasses(t *testing.T) {
	require.GreaterOrEqual(t, len(corpus), 150)
	names := map[string]bool{}
	for _, row := range corpus {
		require.False(t, names[row.name], "twice: %s", row.name)
		names[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.classes, classesOf(row.err), "%T %v", row.err, row.err)
			if row.err == nil {
				return
			}
			for _, err := range []error{hidden{row.err}, fmt.Errorf("call: %w", row.err), errors.Join(row.err)} {
				require.Equal(t, row.classes[:1], classesOf(err)[:1], "%T", err)
			}
		})
	}
}

func TestTheWaitThatAnErrorHasInAFieldIsObeyed(t *testing.T) {
	for name, want := range map[string]time.Duration{"slack: too many": 7 * time.Second, "OAuth: 503": 0} {
		i := slices.IndexFunc(corpus, func(r row) bool { return r.name == name })
		d := backoff.Policy{}.Decide(1, fmt.Errorf("call: %w", corpus[i].err))
		require.True(t, d.Again, name)
		require.Equal(t, want, d.RetryAfter, name)
		require.GreaterOrEqual(t, d.Wait, want, name)
	}
}

// Seen is what the classifier sees of an error by names alone: the type, the text, and
// the fields that it may read.
type seen struct {
	Type   string
	Text   string         `json:",omitempty"`
	Fields map[string]any `json:",omitempty"`
}

// A sample is a row in internal/evidence/testdata.
type sample struct {
	Name    string
	Classes string
	Sees    []seen
}

// fields are the names of those that the classifier may read.
var fields = []string{"Code", "StatusCode", "HTTPStatusCode", "ErrorCode", "Retriable", "IsNotFound", "Op"}

func see(err error) (all []seen) {
	errtree.Find(err, func(err error) bool {
		v := reflect.Indirect(reflect.ValueOf(err))
		one := seen{Type: v.Type().PkgPath() + "." + v.Type().Name(), Fields: map[string]any{}}
		if !strings.HasPrefix(one.Type, "crypto/x509.") && one.Type != "net/url.Error" {
			one.Text = err.Error()
		}
		for _, name := range fields {
			if f := member(v, name); f.IsValid() && !f.IsZero() && (f.CanInt() || f.Kind() == reflect.Bool || f.Kind() == reflect.String) {
				one.Fields[name] = f.Interface()
			}
		}
		if f := reflect.Indirect(member(v, "Response")); f.Kind() == reflect.Struct && f.FieldByName("StatusCode").IsValid() {
			one.Fields["Response"] = map[string]any{"StatusCode": f.FieldByName("StatusCode").Int()}
		}
		if f := member(v, "ErrStatus"); f.IsValid() {
			one.Fields["ErrStatus"] = map[string]any{"Code": f.FieldByName("Code").Int()}
		}
		all = append(all, one)
		return false
	})
	return all
}

func member(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// The test of internal/evidence reads the same rows without the clients. To write them
// anew, set WRITE_CLASSES.
func TestTheRowsWithoutTheClientsAreThose(t *testing.T) {
	const file = "../../evidence/testdata/classes.json"
	var samples []sample
	for _, row := range corpus {
		if row.err != nil {
			samples = append(samples, sample{row.name, row.classes, see(row.err)})
		}
	}
	var text strings.Builder
	for _, s := range samples {
		line, err := json.Marshal(s)
		require.NoError(t, err)
		text.Write(append(line, '\n'))
	}
	if os.Getenv("WRITE_CLASSES") != "" {
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o666))
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(kept))
}
