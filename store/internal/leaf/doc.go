// Package leaf holds what store/mysql and store/postgres have in common: the rules of
// Leaf's table, leaf_alloc.
//
// One row is one tag. A reservation raises max_id by step and owns the numbers just
// below the new value: [max_id − step, max_id). Leaf's servers do the same, so they may
// go on working on the same rows. Only the columns biz_tag, max_id and step are touched;
// the others differ between installations.
package leaf
