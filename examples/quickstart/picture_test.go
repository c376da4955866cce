package main

import "testing"

func TestARowHasABarForEachLane(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{1, counts{attempts: 50}, counts{attempts: 50, successes: 50}}, "  1s  ██████ 50                        ██████ 50      succeeded: 50"},
		{row{2, counts{attempts: 145}, counts{attempts: 58, noBudget: 41}}, "  2s  ██████████████████ 145           ███████ 58     stopped by budget: 41"},
		{row{3, counts{attempts: 200}, counts{attempts: 3, noBudget: 2, open: 47}}, "  3s  █████████████████████████ 200    ▏ 3            stopped by breaker: 47"},
		{row{4, counts{}, counts{}}, "  4s  0                                0"},
	} {
		if got := c.row.line(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}
