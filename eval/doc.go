// Package eval measures how a tree of agents routes and answers: cases say what users write and what
// is expected of the tree, [Run] plays each in a session of its own, as often as wanted and with
// several trees or models side by side, and a [Report] says what share of the cases came out as
// expected, between which bounds, what was confused with what, and what it has cost.
//
//	cases:
//	  - say: I was charged twice          # a case of one turn
//	    path: support > billing
//	  - name: comes back
//	    turns:
//	      - say: My invoice is wrong
//	        path: support > billing
//	        tools: find_invoice
//	        says: [invoice, /refund(ed)?/]  # in whatever case
//	      - say: And the router blinks
//	        path: billing > … > tech|network
//
// [Test] makes a subtest of each case. What a judge says, and how a report looks, is in this package as well; a
// judge is asked only if there is one.
//
// It imports runner and what is below it. It changes no tree, and its sessions are in memory.
package eval
