// Package layered finds places for the boxes of a directed graph without a circle.
// Boxes are in layers, so that every edge leads downwards; boxes and labels never
// overlap, and no edge runs through a box or a label that is not its own. The method
// is that of Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of
// Hierarchical System Structures" (1981): layers, an order within each layer, then
// coordinates.
//
// It knows sizes and numbers only, computes in integers, so that a graph has the same
// drawing everywhere, imports nothing beyond the standard library and never draws.
package layered
