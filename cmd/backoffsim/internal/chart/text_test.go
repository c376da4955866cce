package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

func TestNoWrappedLineIsTooWideAndNothingIsLost(t *testing.T) {
	for _, s := range []string{
		"a sentence of several words", strings.Repeat("unbroken", 20), "short " + strings.Repeat("x", 60) + " tail", "",
	} {
		lines := bodyText.wrap(s, 100, 30)
		for i, line := range lines {
			room := vg.Length(100)
			if i == 0 {
				room = 70
			}
			require.LessOrEqual(t, bodyText.width(line), room, line)
		}
		require.Equal(t, strings.ReplaceAll(s, " ", ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	}
}

func TestALongNameEndsInAnEllipsis(t *testing.T) {
	require.Equal(t, "short", labelText.clip("short", 100))
	long := labelText.clip("policies/experimental/mine-with-a-long-name.json", 100)
	require.True(t, strings.HasSuffix(long, "…"), long)
	require.LessOrEqual(t, labelText.width(long), vg.Length(100))
	require.Greater(t, labelText.width(long), vg.Length(85))
}

func TestNumbersAreBrief(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 64: "64", 1.3310: "1.33", 21.1: "21.1", 91022: "91022", 123.4: "123", .0033: "0.0033", .0001: "0.0001",
		never: "never", 1e-9: "0",
	} {
		require.Equal(t, want, number(v), v)
	}
	require.Equal(t, "100 ms", seconds(.1))
	require.Equal(t, "1.5 s", seconds(1.5))
	require.Equal(t, "0 s", seconds(0))
}
