// Package peersuite holds tests alone: of specialists behind A2A, which must
// behave as the same specialists beside their coordinator do, and of trees in processes of
// their own that call each other.
//
// Its tests import every half of A2A there is. Nothing imports it.
package peersuite
