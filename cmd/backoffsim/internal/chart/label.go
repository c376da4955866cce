package chart

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"sort"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// tagRadius is the radius of the disc with the number of a line.
const tagRadius vg.Length = 5

// tag draws the number of a line in a disc of the line's colour.
func tag(c draw.Canvas, index int, at vg.Point) {
	disc(c, at, tagRadius+1, paper.light)
	disc(c, at, tagRadius, hue(index))
	digits := lettering{7.5, true, paper.light}
	if index > 8 {
		digits.size = 6.5
	}
	digits.write(c, at.Add(vg.Point{Y: -digits.size * .36}), draw.XCenter, strconv.Itoa(index+1))
}

func disc(c draw.Canvas, at vg.Point, radius vg.Length, color color.NRGBA) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: radius, Shape: draw.CircleGlyph{}}, at)
}

// tagPoints returns n points of each path for its number: far from other lines
// and from other numbers.
func tagPoints(paths [][]vg.Point, n int) [][]vg.Point {
	places := make([][]vg.Point, len(paths))
	var taken []vg.Point
	for range n {
		for i, path := range paths {
			best, found := vg.Point{}, math.Inf(-1)
			for _, at := range candidates(path) {
				if s := clearance(at, i, paths, taken, places[i]); s > found+1e-9 {
					best, found = at, s
				}
			}
			places[i], taken = append(places[i], best), append(taken, best)
		}
	}
	return places
}

// candidates returns points of a path at equal steps of x. They are away from
// both ends if the path is long enough.
func candidates(path []vg.Point) []vg.Point {
	const steps = 60
	var at []vg.Point
	lo, hi := path[0].X, path[len(path)-1].X
	if hi-lo > 8*tagRadius {
		lo, hi = lo+3*tagRadius, hi-3*tagRadius
	}
	for i := range steps {
		x := lo + (hi-lo)*(vg.Length(i)+.5)/steps
		at = append(at, vg.Point{X: x, Y: pathY(path, x)})
	}
	return at
}

// pathY returns the height of a path at x.
func pathY(path []vg.Point, x vg.Length) vg.Length {
	i := sort.Search(len(path), func(i int) bool { return path[i].X >= x })
	if i == 0 || i == len(path) {
		return path[min(i, len(path)-1)].Y
	}
	a, b := path[i-1], path[i]
	if b.X == a.X {
		return b.Y
	}
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
}

// clearance scores a point of path own. It adds the distance to the nearest
// other line and the mean distance to all other lines, which matters if lines
// coincide; both are limited to far. Numbers nearby reduce the score, even more
// so those of the same line.
func clearance(at vg.Point, own int, paths [][]vg.Point, taken, mine []vg.Point) float64 {
	const far = 4 * tagRadius
	nearest, sum := far, vg.Length(0)
	for i, path := range paths {
		if i != own {
			d := distance(at, path, far)
			nearest, sum = min(nearest, d), sum+d
		}
	}
	score := float64(nearest + sum/vg.Length(max(1, len(paths)-1)))
	for _, t := range taken {
		d := hypot(at, t)
		score += 2 * min(0, float64(d-5*tagRadius))
		if d < 2*tagRadius+1 {
			score -= 1000 // the numbers would overlap
		}
	}
	for _, t := range mine {
		score += .25 * min(0, float64(hypot(at, t)-30*tagRadius))
	}
	return score
}

func hypot(a, b vg.Point) vg.Length {
	return vg.Length(math.Hypot(float64(a.X-b.X), float64(a.Y-b.Y)))
}

// distance returns the distance of a point from a path that runs from left to
// right, and at most far.
func distance(at vg.Point, path []vg.Point, far vg.Length) vg.Length {
	near := min(far, hypot(at, path[0]))
	for i := 1; i < len(path); i++ {
		if path[i].X >= at.X-far && path[i-1].X <= at.X+far {
			near = min(near, segment(at, path[i-1], path[i]))
		}
	}
	return near
}

// segment returns the distance of a point from the line between a and b.
func segment(at, a, b vg.Point) vg.Length {
	d := b.Sub(a)
	long := d.Dot(d)
	if long == 0 {
		return hypot(at, a)
	}
	t := min(max(at.Sub(a).Dot(d)/long, 0), 1)
	return hypot(at, a.Add(d.Scale(t)))
}

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
		order := labelOrder(lines, ends)
		wanted := make([]vg.Length, len(lines))
		for i, k := range order {
			heights[i], wanted[i] = lines[k].labelHeight(), ends[k].Y
		}
		for i, y := range spread(wanted, heights, room.Min.Y, room.Max.Y) {
			lines[order[i]].label(room, ends[order[i]], y)
		}
	}
}

// leader is the width of the line between a curve and its label.
const leader vg.Length = 22

func (k *curve) labelHeight() vg.Length {
	if k.note == "" {
		return 12.5
	}
	return 23
}

// label writes the label of k at y, with a leader from the end of the line. The
// leader is dotted across the plot if the line ends before the right edge.
func (k *curve) label(room draw.Canvas, end vg.Point, y vg.Length) {
	x := room.Min.X + leader
	thin := draw.LineStyle{Color: hue(k.index), Width: .8}
	room.StrokeLines(thin, []vg.Point{{X: room.Min.X + 1, Y: end.Y}, {X: room.Min.X + 4, Y: end.Y},
		{X: x - 5, Y: y}, {X: x, Y: y}})
	if end.X < room.Min.X-1 {
		thin.Dashes = []vg.Length{1, 4}
		room.StrokeLine2(thin, end.X+4, end.Y, room.Min.X, end.Y)
	}
	tag(room, k.index, vg.Point{X: x + tagRadius, Y: y})
	x += 2*tagRadius + 4
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
	return min(w, 150) + leader + 2*tagRadius + 6
}

// labelOrder sorts lines by where they end, from the top. Lines that end within
// half a line of text of each other are sorted by rank.
func labelOrder(lines []curve, ends []vg.Point) []int {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[b].Y, ends[a].Y) })
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && ends[order[to-1]].Y-ends[order[to]].Y < 6 {
			to++
		}
		slices.SortStableFunc(order[from:to], func(a, b int) int { return cmp.Compare(lines[a].rank, lines[b].rank) })
		from = to
	}
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
