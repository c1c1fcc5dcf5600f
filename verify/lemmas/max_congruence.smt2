; Shifted congruence for any commutative monoid, such as the maximum with minus infinity: equal terms give equal reductions.
; F(m): reduction of the first m terms of f. G(m): of g(lo), ..., g(lo + m - 1). By induction: F(m) = G(m).
;; step base
(declare-sort M 0)
(declare-const e M)
(declare-fun F (Int) M)
(declare-fun G (Int) M)
(assert (= (F 0) e))
(assert (= (G 0) e))
;; goal
(assert (not (= (F 0) (G 0))))
;; step induction
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun f (Int) M)
(declare-fun g (Int) M)
(declare-fun F (Int) M)
(declare-fun G (Int) M)
(declare-const lo Int)
(declare-const m Int)
(assert (>= m 0))
(assert (= (F (+ m 1)) (op (F m) (f m))))
(assert (= (G (+ m 1)) (op (G m) (g (+ lo m)))))
(assert (= (f m) (g (+ lo m))))
(assert (= (F m) (G m)))
;; goal
(assert (not (= (F (+ m 1)) (G (+ m 1)))))
