package backoffmetrics

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDiagnosisIsThatOfTheNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		totals totals
		level  level
		text   string
	}{
		"idle":           {totals{}, quiet, "No calls lately."},
		"a connection":   {totals{reconnects: 1}, good, "A supervised loop: 1 reconnect."},
		"too few":        {totals{first: 2, failed: 7, unrescued: 7, attempts: 30, retries: 21}, quiet, "Too few calls to tell: 9 calls lately."},
		"none needed":    {totals{first: 100, attempts: 100}, good, "No call needs a retry."},
		"rescued":        {totals{first: 95, retried: 5, attempts: 105, retries: 5}, good, "Retries rescue all of the calls that need them."},
		"definitive":     {totals{first: 90, failed: 10, attempts: 100}, good, "No call needs a retry. 10 % fail for reasons that no retry would change."},
		"hidden":         {totals{first: 80, retried: 20, attempts: 130, retries: 30}, watch, "Retries without errors: 30 retries in 100 calls, and hardly any call fails. The retry budget or the thresholds of a breaker are wrong, or a fault is hidden."},
		"some rescued":   {totals{first: 90, retried: 6, failed: 4, unrescued: 4, attempts: 120, retries: 20}, watch, "Retries rescue 60 % of the calls that need them; 4 % of all calls fail in the end."},
		"broken, bare":   {totals{first: 20, failed: 80, unrescued: 80, attempts: 340, retries: 240}, bad, "Retries do not converge: 80 % of calls fail all the same. The upstream is broken in a way that retries cannot fix. They multiply its load by 3.4; no budget refused any."},
		"broken, guard":  {totals{first: 20, failed: 80, unrescued: 80, attempts: 105, retries: 5, refused: 75}, bad, "Retries do not converge: 80 % of calls fail all the same. The upstream is broken in a way that retries cannot fix. The budget holds the load at 1.1 times that of the calls."},
		"broken, single": {totals{first: 20, failed: 80, unrescued: 80, attempts: 100}, bad, "Retries do not converge: 80 % of calls fail all the same. The upstream is broken in a way that retries cannot fix."},
	} {
		d := diagnose(c.totals)
		require.Equal(t, diagnosis{c.level, c.text}, d, name)
	}
}

func TestTheConclusionNamesTheWorstFirst(t *testing.T) {
	operation := func(name string, l level) operationReport {
		return operationReport{Name: name, Diagnosis: &diagnosis{Level: l}}
	}
	for _, c := range []struct {
		operations []operationReport
		breaker    string
		want       conclusion
	}{
		{[]operationReport{operation("a", good), operation("b", quiet)}, "closed", conclusion{good, []string{"All is well."}}},
		{[]operationReport{operation("b", watch)}, "half-open", conclusion{watch, []string{"Circuit half-open: c.", "Worth a look: b."}}},
		{[]operationReport{operation("a", bad), operation("b", watch)}, "open", conclusion{bad, []string{"Retries cannot help a.", "Circuit open: c.", "Worth a look: b."}}},
		{[]operationReport{operation("a", watch), operation("b", watch), operation("c", watch), operation("d", watch), operation("e", watch)}, "closed",
			conclusion{watch, []string{"Worth a look: a, b, c and 2 more."}}},
	} {
		require.Equal(t, &c.want, conclude(c.operations, []breakerReport{{Name: "c", State: c.breaker}}))
	}
}

func TestAlmostAllIsNotAll(t *testing.T) {
	for want, of := range map[string][2]uint64{"all": {7, 7}, "99 %": {9999, 10000}, "less than 1 %": {1, 10000}, "0 %": {0, 5}, "50 %": {1, 2}} {
		require.Equal(t, want, share(of[0], of[1]))
	}
}
