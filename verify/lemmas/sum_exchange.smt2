; The sum over devices of sums over k is the sum over k of sums over devices. By induction on the number m of terms: A(m) = B(m), where
; A(m): sum over devices of S(c, m), S(c, m): sum of the first m terms on device c; B(m): sum of the first m values of T(k), T(k): sum over
; devices of the term k. That the sum over devices of S(c, m) + f(c, m) splits is sum_additive.
;; step base
(declare-fun A (Int) Real)
(declare-fun B (Int) Real)
(assert (= (A 0) 0.0))
(assert (= (B 0) 0.0))
;; goal
(assert (not (= (A 0) (B 0))))
;; step induction
(declare-fun A (Int) Real)
(declare-fun B (Int) Real)
(declare-fun T (Int) Real)
(declare-const m Int)
(assert (= (A (+ m 1)) (+ (A m) (T m))))
(assert (= (B (+ m 1)) (+ (B m) (T m))))
(assert (= (A m) (B m)))
;; goal
(assert (not (= (A (+ m 1)) (B (+ m 1)))))
