package chart

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

func TestALabelWithRoomStaysBesideItsLine(t *testing.T) {
	y := spread([]vg.Length{90, 50, 10}, []vg.Length{12, 12, 12}, 0, 100)
	require.Equal(t, []vg.Length{90, 50, 10}, y)
}

func TestLabelsOfLinesThatEndTogetherMoveApartEvenly(t *testing.T) {
	y := spread([]vg.Length{50, 50, 50}, []vg.Length{10, 10, 10}, 0, 100)
	require.Equal(t, []vg.Length{60, 50, 40}, y)
}

func TestLabelsNeverOverlapNorLeaveTheRoomNorSwap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(MaxLines)
		wanted, heights := make([]vg.Length, n), make([]vg.Length, n)
		at := vg.Length(300)
		for i := range wanted {
			if r.IntN(2) == 0 {
				at -= vg.Length(r.IntN(60))
			}
			wanted[i], heights[i] = max(0, at), vg.Length(12+10*r.IntN(2))
		}
		y := spread(wanted, heights, 0, 300)
		top := vg.Length(300)
		for i := range y {
			require.LessOrEqual(t, y[i]+heights[i]/2, top+1e-9, "%v %v %v", wanted, heights, y)
			top = y[i] - heights[i]/2
		}
		require.GreaterOrEqual(t, top, vg.Length(-1e-9), "%v %v %v", wanted, heights, y)
	}
}

func TestLabelsOfLinesThatEndTogetherKeepTheOrderOfTheLines(t *testing.T) {
	require.Equal(t, []int{0, 1, 3, 2}, labelOrder([]vg.Point{{Y: 100}, {Y: 101}, {Y: 2}, {Y: 99.5}}))
}
