package backofftest

import (
	"testing"
	"testing/synctest"

	"github.com/gobackoff/backoff/fleet"
)

func TestMemoryIsAStore(t *testing.T) {
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.check(t, new(fleet.Memory)) })
		})
	}
}
