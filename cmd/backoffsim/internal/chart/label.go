package chart

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// labels returns a function that writes the names of lines beside their ends,
// with a leader from line to label. Labels of lines that end together are moved
// apart.
func labels(p *plot.Plot, lines []curve) func(data, room draw.Canvas) {
	return func(data, room draw.Canvas) {
		at := on(p, data)
		ends, heights := make([]vg.Point, len(lines)), make([]vg.Length, len(lines))
		for i, k := range lines {
			last := len(k.Mean) - 1
			ends[i] = at(k.x[last], k.Mean[last])
		}
		order := labelOrder(ends)
		wanted := make([]vg.Length, len(lines))
		for i, k := range order {
			heights[i], wanted[i] = lines[k].labelHeight(), ends[k].Y
		}
		for i, y := range spread(wanted, heights, room.Min.Y, room.Max.Y) {
			lines[order[i]].label(room, ends[order[i]], y)
		}
	}
}

// A label begins with a leader from the end of its line, and a sample of the
// line.
const (
	leader vg.Length = 14
	sample vg.Length = 26
)

func (k *curve) labelHeight() vg.Length {
	if k.note == "" {
		return 12.5
	}
	return 23
}

// label writes the label of k at y.
func (k *curve) label(room draw.Canvas, end vg.Point, y vg.Length) {
	x := room.Min.X + leader
	thin := draw.LineStyle{Color: hue(k.index), Width: .8}
	room.StrokeLines(thin, []vg.Point{
		{X: room.Min.X + 1, Y: end.Y}, {X: room.Min.X + 3, Y: end.Y}, {X: x, Y: y},
	})
	room.StrokeLine2(stroke(k.index), x, y, x+sample, y)
	x += sample + 4
	top := y - 3
	if k.note != "" {
		top = y + 2
		noteText.write(room, vg.Point{X: x, Y: y - 8}, draw.XLeft, noteText.clip(k.note, room.Max.X-x))
	}
	labelText.write(room, vg.Point{X: x, Y: top}, draw.XLeft, labelText.clip(k.name, room.Max.X-x))
}

// labelRoom returns the width of the labels, within bounds.
func labelRoom(lines []curve) vg.Length {
	w := vg.Length(60)
	for _, k := range lines {
		w = max(w, labelText.width(k.name), noteText.width(k.note))
	}
	return min(w, 150) + leader + sample + 5
}

// labelOrder sorts lines by where they end, from the top. Lines that end within
// half a line of text of each other keep their order.
func labelOrder(ends []vg.Point) []int {
	order := make([]int, len(ends))
	for i := range order {
		order[i] = i
	}
	row := func(i int) float64 { return math.Round(float64(ends[i].Y) / 6) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row(b), row(a)) })
	return order
}

// spread moves the middles of labels so that none overlap and all lie between
// lo and hi, as little as possible. wanted descends.
func spread(wanted, heights []vg.Length, lo, hi vg.Length) []vg.Length {
	var piles []pile
	var total vg.Length
	for i, w := range wanted {
		piles = append(piles, pile{n: 1, sum: w + heights[i]/2 + total})
		total += heights[i]
		for g := len(piles) - 1; g > 0 && piles[g-1].top() < piles[g].top(); g-- {
			piles[g-1].n += piles[g].n
			piles[g-1].sum += piles[g].sum
			piles = piles[:g]
		}
	}
	var y []vg.Length
	var above vg.Length
	for _, p := range piles {
		top := min(max(p.top(), lo+total), hi)
		for range p.n {
			half := heights[len(y)] / 2
			y = append(y, top-above-half)
			above += 2 * half
		}
	}
	return y
}

// A pile is a group of labels that touch. Its top is the mean of the tops that
// would put each label at its wanted height, if all labels before it were on
// top of it.
type pile struct {
	n   int
	sum vg.Length // of the tops
}

func (p pile) top() vg.Length { return p.sum / vg.Length(p.n) }
