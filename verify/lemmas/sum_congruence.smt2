; Shifted congruence of sums. A device sums f(0), f(1), ... over its own indices; the reference sums g over global indices from lo on. If
; f(i) = g(lo + i) for every i, the sums of the first m terms agree for every m.
; F(m): sum of the first m terms of f. G(n): sum of the first n terms of g. By induction on m: F(m) = G(lo + m) - G(lo).
;; step base
(declare-fun F (Int) Real)
(declare-fun G (Int) Real)
(declare-const lo Int)
(assert (= (F 0) 0.0))
;; goal
(assert (not (= (F 0) (- (G (+ lo 0)) (G lo)))))
;; step induction
(declare-fun f (Int) Real)
(declare-fun g (Int) Real)
(declare-fun F (Int) Real)
(declare-fun G (Int) Real)
(declare-const lo Int)
(declare-const m Int)
(assert (>= m 0))
(assert (= (F (+ m 1)) (+ (F m) (f m))))
(assert (= (G (+ (+ lo m) 1)) (+ (G (+ lo m)) (g (+ lo m)))))
(assert (= (f m) (g (+ lo m))))
(assert (= (F m) (- (G (+ lo m)) (G lo))))
;; goal
(assert (not (= (F (+ m 1)) (- (G (+ lo (+ m 1))) (G lo)))))
