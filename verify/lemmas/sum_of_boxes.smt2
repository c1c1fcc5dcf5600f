; Telescoping: the sums over the ranges [b(c), b(c + 1)) of all devices add up to the sum over everything.
; G(n): sum of the first n terms. A(c): what the first c devices contribute. By induction on c: A(c) = G(b(c)); b(0) = 0 and b(n) = D end it.
;; step base
(declare-fun G (Int) Real)
(declare-fun A (Int) Real)
(declare-fun b (Int) Int)
(assert (= (b 0) 0))
(assert (= (G 0) 0.0))
(assert (= (A 0) 0.0))
;; goal
(assert (not (= (A 0) (G (b 0)))))
;; step induction
(declare-fun G (Int) Real)
(declare-fun A (Int) Real)
(declare-fun b (Int) Int)
(declare-const c Int)
(assert (<= 0 c))
(assert (<= (b c) (b (+ c 1))))
(assert (= (A (+ c 1)) (+ (A c) (- (G (b (+ c 1))) (G (b c))))))
(assert (= (A c) (G (b c))))
;; goal
(assert (not (= (A (+ c 1)) (G (b (+ c 1))))))
;; step whole
(declare-fun G (Int) Real)
(declare-fun A (Int) Real)
(declare-fun b (Int) Int)
(declare-const n Int)
(declare-const D Int)
(assert (= (b n) D))
(assert (= (A n) (G (b n))))
;; goal
(assert (not (= (A n) (G D))))
