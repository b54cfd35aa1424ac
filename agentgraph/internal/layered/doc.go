// Package layered computes positions for the boxes of a directed acyclic graph. Boxes are in layers, and every edge
// leads downwards. Boxes and labels never overlap, and no edge crosses a box or the label of another edge. The method
// is that of Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981):
// layers, an order within each layer, then coordinates.
//
// The package uses only sizes and indexes, and computes with integers, so that a graph has the same drawing on every
// machine. It draws nothing itself.
package layered
