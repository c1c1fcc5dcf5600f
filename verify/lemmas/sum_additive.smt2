; A sum of f + g is the sum of f plus the sum of g. By induction on the number of terms: H(m) = F(m) + G(m).
;; step base
(declare-fun F (Int) Real)
(declare-fun G (Int) Real)
(declare-fun H (Int) Real)
(assert (= (F 0) 0.0))
(assert (= (G 0) 0.0))
(assert (= (H 0) 0.0))
;; goal
(assert (not (= (H 0) (+ (F 0) (G 0)))))
;; step induction
(declare-fun f (Int) Real)
(declare-fun g (Int) Real)
(declare-fun F (Int) Real)
(declare-fun G (Int) Real)
(declare-fun H (Int) Real)
(declare-const m Int)
(assert (= (F (+ m 1)) (+ (F m) (f m))))
(assert (= (G (+ m 1)) (+ (G m) (g m))))
(assert (= (H (+ m 1)) (+ (H m) (+ (f m) (g m)))))
(assert (= (H m) (+ (F m) (G m))))
;; goal
(assert (not (= (H (+ m 1)) (+ (F (+ m 1)) (G (+ m 1))))))
