package chart

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const tagRadius vg.Length = 5

// tag draws the number of a line, a disc in its colour.
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

// tagPlaces finds for each path n places for its number: far from all other lines and
// from the numbers placed before.
func tagPlaces(paths [][]vg.Point, n int) [][]vg.Point {
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

// candidates are places along a path, at equal steps of x and away from both ends; a
// path too short for that has its middle.
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

// pathY is the height of a path at x.
func pathY(path []vg.Point, x vg.Length) vg.Length {
	i, _ := slices.BinarySearchFunc(path, x, func(p vg.Point, x vg.Length) int {
		if p.X < x {
			return -1
		}
		return 1
	})
	if i == 0 || i == len(path) {
		return path[min(i, len(path)-1)].Y
	}
	a, b := path[i-1], path[i]
	if b.X == a.X {
		return b.Y
	}
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
}

// clearance is how free a place on path own is: how far from the nearest other line and,
// where lines coincide, from the others on average, up to two discs; less for other
// numbers nearby, most for those of the same line.
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
			score -= 1000 // one would cover the other
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

// distance is how far a path, which runs from left to right, is from a point, or far if
// it is farther.
func distance(at vg.Point, path []vg.Point, far vg.Length) vg.Length {
	near := min(far, hypot(at, path[0]))
	for i := 1; i < len(path); i++ {
		if path[i].X >= at.X-far && path[i-1].X <= at.X+far {
			near = min(near, segment(at, path[i-1], path[i]))
		}
	}
	return near
}

func segment(at, a, b vg.Point) vg.Length {
	d := b.Sub(a)
	long := d.Dot(d)
	if long == 0 {
		return hypot(at, a)
	}
	t := min(max(at.Sub(a).Dot(d)/long, 0), 1)
	return hypot(at, a.Add(d.Scale(t)))
}

// labels writes the names of lines beside their ends, moved apart where lines end
// together, with a leader from line to label.
func labels(p *plot.Plot, lines []curve) func(data, room draw.Canvas) {
	return func(data, room draw.Canvas) {
		ends := make([]vg.Length, len(lines))
		for i := range lines {
			pts := lines[i].points(p, data, lines[i].Mean)
			ends[i] = pts[len(pts)-1].Y
		}
		order := labelOrder(lines, ends)
		heights := make([]vg.Length, len(order))
		wanted := make([]vg.Length, len(order))
		for i, k := range order {
			heights[i], wanted[i] = lines[k].labelHeight(), ends[k]
		}
		for i, y := range spread(wanted, heights, room.Min.Y, room.Max.Y) {
			k := &lines[order[i]]
			pts := k.points(p, data, k.Mean)
			k.label(room, pts[len(pts)-1], y)
		}
	}
}

const leader vg.Length = 22

func (k *curve) labelHeight() vg.Length {
	if k.note == "" {
		return 12.5
	}
	return 23
}

// label writes the label of k at y, with a leader from the end of the line, dotted across
// the data where the line ends before them.
func (k *curve) label(room draw.Canvas, end vg.Point, y vg.Length) {
	x := room.Min.X + leader
	thin := draw.LineStyle{Color: hue(k.index), Width: .8}
	room.StrokeLines(thin, []vg.Point{{X: room.Min.X + 1, Y: end.Y}, {X: room.Min.X + 4, Y: end.Y}, {X: x - 5, Y: y}, {X: x, Y: y}})
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

// labelRoom is how wide the labels are, within bounds.
func labelRoom(lines []curve) vg.Length {
	w := vg.Length(60)
	for _, k := range lines {
		w = max(w, labelText.width(k.name), noteText.width(k.note))
	}
	return min(w, 150) + leader + 2*tagRadius + 6
}

// labelOrder sorts lines from the top by where they end; those that end within half a
// line of text of each other by rank.
func labelOrder(lines []curve, ends []vg.Length) []int {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return descending(float64(ends[a]), float64(ends[b])) })
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && ends[order[to-1]]-ends[order[to]] < 6 {
			to++
		}
		slices.SortStableFunc(order[from:to], func(a, b int) int { return descending(lines[b].rank, lines[a].rank) })
		from = to
	}
	return order
}

func descending(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// spread moves the middles of labels, wanted from the top down, as little as needed for
// none to overlap and all to lie between lo and hi.
func spread(wanted, heights []vg.Length, lo, hi vg.Length) []vg.Length {
	var groups []pile
	for i, w := range wanted {
		groups = append(groups, pile{first: i, n: 1, height: heights[i], sum: w + heights[i]/2})
		for g := len(groups) - 1; g > 0 && groups[g-1].bottom(lo, hi) < groups[g].top(lo, hi); g-- {
			groups[g-1].add(groups[g])
			groups = groups[:g]
		}
	}
	y := make([]vg.Length, len(wanted))
	for _, g := range groups {
		at := g.top(lo, hi)
		for i := g.first; i < g.first+g.n; i++ {
			y[i] = at - heights[i]/2
			at -= heights[i]
		}
	}
	return y
}

// A pile is labels that touch. Its top is the mean of the tops that would put each label
// where it wants to be.
type pile struct {
	first, n    int
	height, sum vg.Length
}

func (p *pile) top(lo, hi vg.Length) vg.Length {
	return min(max(p.sum/vg.Length(p.n), lo+p.height), hi)
}

func (p *pile) bottom(lo, hi vg.Length) vg.Length { return p.top(lo, hi) - p.height }

// add puts the pile q under p.
func (p *pile) add(q pile) {
	p.sum += q.sum + p.height*vg.Length(q.n)
	p.height += q.height
	p.n += q.n
}
