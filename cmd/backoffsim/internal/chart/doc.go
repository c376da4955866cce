// Package chart draws what the simulator measured: as SVG, as PNG, and as one HTML page
// that needs nothing beside itself.
//
// A [Chart] is plain data: numbers, the names of the policies they belong to, and a
// [Frame] that says under which conditions they were measured. It knows nothing of the
// models. The same data give the same bytes.
//
// Every picture can be read in light and dark colour schemes and without colours: a
// line has its own colour, its own dashes and its own number, which also begins the
// label at its end. Where something never recovers, the picture says so in words.
package chart
